package stream

import "encoding/binary"

// PartitionFor is the partition of a key among the given number of them, as
// Kafka's default partitioner chooses it: positive(murmur2(key)) % partitions.
// A nil key, which Kafka's clients spread as they like, always goes to partition
// 0 here, so that the log alone decides where a record lies; an empty key is a
// key like any other. Below two partitions the answer is 0.
func PartitionFor(key []byte, partitions int32) int32 {
	if key == nil || partitions < 2 {
		return 0
	}
	return (murmur2(key) & 0x7fffffff) % partitions
}

// murmur2 is the 32-bit hash with the seed and the signedness of Kafka's Java
// client.
func murmur2(data []byte) int32 {
	const (
		seed     uint32 = 0x9747b28c
		multiply uint32 = 0x5bd1e995
		shift           = 24
	)
	h := seed ^ uint32(len(data))
	for len(data) >= 4 {
		k := binary.LittleEndian.Uint32(data) * multiply
		k = (k ^ k>>shift) * multiply
		h = h*multiply ^ k
		data = data[4:]
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(data[0])) * multiply
	}
	h = (h ^ h>>13) * multiply
	return int32(h ^ h>>15)
}
