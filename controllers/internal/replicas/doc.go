// Package replicas tells a replica of the operator which addresses it may hand out without asking the others.
package replicas
