// Package arrows executes the import map of docs/architecture.md as a test: which folder of the
// tree may know which other folder, and why not. It holds no code of its own.
//
// The promise: a dependency that points the wrong way fails `make test` with the reason in the
// message, however many packages it hides behind. Start with the table in arrows_test.go.
package arrows
