// Package golden is the slow and obvious twin of package allocator. The tests of allocator do everything twice,
// once with each, and compare.
//
// It promises to be right for reasons that a reader sees at once: addresses are numbers of math/big, a set is a
// map, a range is read off its definition, and what may be drawn is found by asking about every address of every
// range. Nothing here is shared with allocator, nothing is fast, and only Span.Size, Span.Overlaps, Span.Has and
// Set.NthFree can be asked about spans that are too long to be enumerated.
//
// Start reading at Range, then Pool.
package golden
