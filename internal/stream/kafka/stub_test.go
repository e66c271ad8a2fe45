package kafka

import (
	"errors"

	"github.com/peil-stream/peil/internal/stream"
)

func (lossyLog) Consumer(stream.Subscription) (stream.Consumer, error) {
	return nil, errors.New("not yet")
}
