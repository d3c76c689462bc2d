// Package v1alpha1 is the manager's configuration file: types, defaults, reading and validation.
//
// It promises that a file is either taken as a whole or refused with every mistake in it named at once, and that
// a file without a field means the same as the field's default, which is also the default of the flag.
//
// Start with ManagerConfiguration; Load reads a file.
package v1alpha1
