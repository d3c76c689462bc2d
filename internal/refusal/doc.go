// Package refusal stops what a platform forbids. Where an admission policy, a webhook or the
// permissions of the operator refuse a kind of write, one write in a while is tried, whatever the
// number of objects that ask for it, and a metric and one event say so.
package refusal
