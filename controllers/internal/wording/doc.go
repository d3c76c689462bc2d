// Package wording fits what the operator tells users into the room that the API server gives. Everything here is a pure function.
package wording
