package stream

import "testing"

// The hashes come from the tests of Kafka's Java client.
func TestMurmur2(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := murmur2([]byte(key)); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
	}
}

func TestPartitionFor(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		key        []byte
		partitions int32
		want       int32
	}{
		{"positive hash", []byte("abc"), 12, 479470107 % 12},
		{"negative hash", []byte("21"), 12, (-973932308 & 0x7fffffff) % 12},
		{"one partition", []byte("21"), 1, 0},
		{"no partition", []byte("21"), 0, 0},
		{"nonsense", []byte("21"), -3, 0},
		{"null key", nil, 12, 0},
		{"empty key is a key", []byte{}, 1000, 681}, // murmur2 of nothing is 275646681
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := PartitionFor(tt.key, tt.partitions); got != tt.want {
				t.Errorf("PartitionFor(%q, %d) = %d, want %d", tt.key, tt.partitions, got, tt.want)
			}
		})
	}
}
