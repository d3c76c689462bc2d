// Package replicas tells a replica of the operator which addresses it may hand out without asking the others.
//
// It models the replicas as members that have a Lease each. A [Members] keeps the Lease of its replica and lists those of the others;
// what it knows is a view, a value (view.go), and what follows for those who draw addresses is Rights. Start reading there.
//
// # What it promises
//
// No two replicas are ever sure of one address at once, whatever freezes, gets lost, comes late or is cut off, and whatever the
// clocks show, as long as none runs half as fast again as another one. Nor is one sure of an address that another one may have handed
// out less than Options.Settle ago. A replica that has joined stays sure when others join, leave or die; only when it cannot renew its
// Lease it is not. When the API server comes back after a long absence, all go on with the Leases that they had.
//
// # The protocol
//
// A Lease says who holds it and, in an annotation, which other Leases its holder knows, by their UIDs. A replica lists the Leases
// every few seconds, or when a watch has something new, and after each list, in this order:
//
//  1. It reckons with every replica whose Lease is there, and with those whose Leases went less than Settle ago: its shard is the part
//     that is its own when the addresses are divided among these.
//  2. It renews its Lease, at once if it knows others than before.
//  3. It deletes the Leases that it has not seen change for as long as they last and a fifth more, by its own clock, while it was
//     listening all the time. The API server refuses if they have changed after all (preconditions on UID and version).
//
// It is admitted when a list has shown its own Lease, and every other Lease knowing it. It is sure from Settle after that,
// until four fifths of a Lease after the start of the last renewal that was confirmed. A replica whose Lease is gone joins anew,
// with a new Lease that nobody knows.
//
// # Why it is safe
//
// An address belongs to the member that weighs most with it. If A reckons with B, A draws only where it outweighs B. So two replicas
// that reckon with each other never own the same address, whomever else they reckon with: their views need not agree.
//
// A lapsed Lease is never fresh again. Whoever deletes the Lease of A has seen its last version for more than its life; A had
// begun to write that version before, and trusts it shorter than that; and A cannot renew what is gone. A replica that leaves is
// unsure before it deletes its Lease. So (*): at a moment when the Lease of A is gone, A is not sure by it.
//
// Now let A and B both be sure, and B not be among those with whom A reckons. Look at the latest list that A has taken in. The Lease
// by which B is sure was not in it, for A would reckon with B. It had not been deleted before that list (*). So it was
// created after that list. B was admitted later still, by a list that showed the Lease of A knowing that of B: the one by which A
// is sure, for that was there when A made its list, and is not gone (*). But A can have written so only after a list with the Lease of
// B in it, and A has taken in no such list. So there are no such A and B.
//
// The order of steps 1 and 2 is what this rests on; lists may be old, watches may be lost, and writes may be carried out long after
// they were given up. A replica that froze between asking for its shard and using it answers a webhook call that the API
// server has long given up. Addresses in flight: whoever gains an address gains it Settle after its last owner lost it, for the
// owner had lost it before the new one was known to it, or before its Lease was gone.
//
// # Rights
//
// A replica that is sure hands out its own without a word to anybody. For everything else there is one replica that settles it
// ([Members.Rights]): the owner, as long as it says in its Lease that it serves, is heard of, and answers; otherwise the next one in the order of
// the weights, its heir. The heir has to claim what it hands out through the API server, for about who serves the replicas may be of two minds, and
// a claim is seen by all. Nobody else claims, for between the deletion of a claim and the API server's own write there is a gap, into which the
// claim of another one would fall; only where nobody serves, as at the first start, those that are there claim without an order.
//
// A joining replica says that it serves when it has settled but for a second, and is sure a second after that was written: its heirs have read it by
// then, and have stopped. When a replica goes, its heirs begin a second later: what it drew last has been written by then. When one dies, others ask it in
// vain for 0.65 s, and tell each other by asking: who is asked for what a third one owns, and has not heard of that one either, takes over.
//
// # Borrowing
//
// What a replica has drawn nobody else can see before the API server has written it. So whoever wants an address that another replica
// settles asks for it ([Members.Borrow]): asks and answers are annotations of the Leases, written at once and read by the watch. An owner lends
// what it is sure of and what is free in its books, and takes it out of its draws first. The borrower has less than a second, so
// Settle covers what is borrowed as it does what is drawn. An heir lends its claim: it takes the address out of its own draws, and the borrower claims it.
//
// Who was asked, and has not answered nor been heard of since, is passed over until it is heard of. That is for a few seconds at most if it lives: if it
// hands out an address in that time which the heir claims, the creation of one of the two Services fails, as it may without the operator.
//
// # What it does not promise
//
// It does not survive a machine that stands still with all its clocks, and later goes on as if nothing had happened, until its next
// renewal; nor a hand that deletes the Lease of a living replica while that one is cut off.
package replicas
