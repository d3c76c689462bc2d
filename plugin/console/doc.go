// Package console serves a page to one user of this machine: `kubectl clusterip console`.
//
// The page is static and embedded. It shows the answers, as JSON, of sources that have names. An
// open page asks every two seconds, and is sent only what has changed.
//
// Other users of the machine can connect to its port, and so can pages of other web sites in the
// user's browser. Neither gets anything: all paths begin with a random token, and requests for
// another host (a name bound anew to the loopback address) or from a page of another origin are
// refused. There is no cookie, for all ports of a host share cookies. Nothing can be written.
//
// assets/uplot.* are npm's uPlot 1.6.32 (dist/uPlot.iife.min.js, dist/uPlot.min.css), unchanged.
//
// The page has all rows of a list in its memory, and in the document those that can be seen: with
// thousands of them, only so a filter answers at once. New data changes cells whose text is another
// one, so that focus and selection stay.
//
// Start with command.go; data.go answers, server.go serves, and assets/app.js is where the page
// begins. assets/grid.js is what lists have in common; assets/order.js, window.js and keys.js
// decide for it.
package console
