// Package controllers puts the operator's control loops together: what they watch and share, and in
// which order they start. Each loop is a folder beside this file; none imports another.
//
// It promises that nothing starts on an API server that cannot serve it: kube.Discover finds the
// version of the API, Preflight the missing permissions; their errors name the remedy.
//
// Start with Setup, the one list of everything that runs.
package controllers
