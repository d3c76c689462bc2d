// Package bundle gathers what an issue needs into one archive, for `kubectl clusterip bundle`: what
// the other commands say, objects, events, logs, and what agents serve.
//
// It promises that no Secret is asked for, that nothing but the file is written, and that memory
// does not grow with the number of Services, but for their names and for what `check` needs. What
// cannot be read is said in errors.txt, and the rest goes on. Unless the user wants names, each
// name of names.go is a pseudonym in every file.
//
// Start with bundle.go, which says what is gathered and in which order; redact.go finds names in
// texts, names.go gives pseudonyms, and slim.go says what is kept of an object.
package bundle
