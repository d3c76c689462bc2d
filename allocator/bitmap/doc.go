// Package bitmap reads and writes what the allocator of API servers before 1.34 keeps in etcd: one
// bit for each address of a Service range, in a RangeAllocation per family. It takes and returns
// ranges and bytes; it knows neither Kubernetes nor etcd.
//
// # The bits
//
// Bit i is worth 2^i and stands for the address i+1 after the network address. The bytes are that
// number, most significant byte first, without leading zero bytes, so their length varies. This is
// 10.0.0.0/28 with 10.0.0.1, .2 and .10 in use; its 14 bits fit into two bytes, 02 03:
//
//	byte                   02                              03
//	value  2^15                          2^8 | 2^7                          2^0
//	        0   0   0   0   0   0   1   0   |   0   0   0   0   0   0   1   1
//	addr    -   -  .14 .13 .12 .11 .10 .9   |  .8  .7  .6  .5  .4  .3  .2  .1
//
// Without .10 the first byte is zero and not written: 03 remains. Without any address no byte does.
//
//	IPv4  10.0.0.0/24   |network|.1 ... bits ... .254|broadcast|     size-2 bits
//	IPv6  fd00::/120    |network|::1 ... bits ............ ::ff|     size-1 bits
//	IPv6  fd00::/108    |network|::1 ... bits ... ::ffff| no bits | at most 65535 bits
//
// A range without such addresses (/31, /32, /128) has a bitmap without bits.
//
// # What it promises
//
//   - [Bitmap.Data] returns, byte for byte, what the API server would write for the same addresses.
//   - [Parse] refuses what it does not fully understand, and says what it is: a bitmap never used
//     ([ErrUnset]), node ports, kept in the same form under another key ([ErrNodePorts]), an
//     invalid range, bits without an address. It never drops a bit silently.
//
// Start reading at [Bitmap], then [Parse].
package bitmap
