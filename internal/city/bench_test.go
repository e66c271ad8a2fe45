package city

import (
	"testing"
	"time"
)

func BenchmarkMessage(b *testing.B) {
	c, err := New(Config{})
	if err != nil {
		b.Fatal(err)
	}
	at := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	c.Message(at)
	for b.Loop() {
		c.Message(at)
	}
}

func BenchmarkNewDay(b *testing.B) {
	c, err := New(Config{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		c.newDay(serviceDate{2026, 11, 30})
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := New(Config{}); err != nil {
			b.Fatal(err)
		}
	}
}
