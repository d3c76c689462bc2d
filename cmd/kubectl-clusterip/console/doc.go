// Package console serves a page to one user of this machine: `kubectl clusterip console`.
//
// The page is static and embedded; what it shows are the answers of sources, which the caller gives by name, as JSON. A page that is open asks every
// two seconds, and is sent only what has changed.
//
// Other users of the machine can connect to its port, and so can pages of other web sites in the user's own browser. Neither gets anything: all paths begin with
// a random token, requests for another host are refused (a name that was bound to the loopback address anew), and so are those that a page of another
// origin sends. There is no cookie, for cookies are shared by all ports of a host. Nothing can be written.
//
// assets/uplot.js and uplot.css are uPlot 1.6.32 as npm has it (dist/uPlot.iife.min.js, dist/uPlot.min.css), unchanged.
//
// Start with server.go; assets/app.js is where the page begins.
package console
