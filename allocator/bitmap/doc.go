// Package bitmap reads and writes what the allocator of API servers before 1.34 keeps in etcd: one bit for each
// address of a Service range, in a RangeAllocation per family. It takes a range and bytes and returns them; it
// knows neither Kubernetes nor etcd.
//
// # The bits
//
// Bit i is worth 2^i and stands for the address i+1 after the network address. The bytes are that number,
// most significant byte first and without zero bytes in front, so their length varies. This is 10.0.0.0/28 with
// 10.0.0.1, .2 and .10 in use; its 14 bits fit into two bytes, 02 03:
//
//	byte                   02                              03
//	value  2^15                          2^8 | 2^7                          2^0
//	        0   0   0   0   0   0   1   0   |   0   0   0   0   0   0   1   1
//	addr    -   -  .14 .13 .12 .11 .10 .9   |  .8  .7  .6  .5  .4  .3  .2  .1
//
// Without .10 the first byte would be zero and is not written: 03 is all there is. Without any it is no byte.
//
//	IPv4  10.0.0.0/24   |network|.1 ... bits ... .254|broadcast|     size-2 bits
//	IPv6  fd00::/120    |network|::1 ... bits ............ ::ff|     size-1 bits
//	IPv6  fd00::/108    |network|::1 ... bits ... ::ffff| no bits | at most 65535 bits
//
// A range without such addresses (/31, /32, /128) has a bitmap without bits.
//
// # What it promises
//
//   - What [Bitmap.Data] returns is, byte for byte, what the API server would write for the same addresses.
//   - [Parse] refuses whatever it does not wholly understand, and says what it is: a bitmap that was never used
//     ([ErrUnset]), node ports, which are kept in the same form under another key ([ErrNodePorts]), a range that is
//     none, bits without an address. No bit is ever dropped in silence.
//
// Start reading at [Bitmap], then [Parse].
package bitmap
