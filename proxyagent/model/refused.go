package model

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
)

// ErrRefused means that the kernel, or a program that writes for it, has looked at what it was
// asked for and does not take it. A tenant can cause that, and the same answer comes again: it must
// stay with the ports that it is about. All other failures are for all ports.
var ErrRefused = errors.New("refused")

// lacking are answers that say nothing of what was asked for: the node lacks something.
var lacking = []syscall.Errno{
	syscall.EPERM, syscall.ENOMEM, syscall.ENOBUFS, syscall.EINTR, syscall.EAGAIN, syscall.ENODEV, syscall.EAFNOSUPPORT, syscall.ENETDOWN,
}

// Refused says of an answer of the kernel that it is [ErrRefused], unless the node lacks something.
func Refused(err error) error {
	number, answered := errors.AsType[syscall.Errno](err)
	if !answered || slices.Contains(lacking, number) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}

// Bisect finds which of some items are refused, with the reasons, by trying ever fewer of them
// together. It fails when something else goes wrong.
func Bisect[T comparable](items []T, try func(...T) error) (map[T]error, error) {
	if len(items) == 0 {
		return nil, nil
	}
	err := try(items...)
	if !errors.Is(err, ErrRefused) {
		return nil, err
	}
	if len(items) == 1 {
		return confirm(items[0], try)
	}
	refused, err := Bisect(items[:len(items)/2], try)
	if err != nil {
		return nil, err
	}
	more, err := Bisect(items[len(items)/2:], try)
	return merged(refused, more), err
}

// confirm tries an item once more, after nothing: another failure shows then too, or is gone.
func confirm[T comparable](item T, try func(...T) error) (map[T]error, error) {
	if err := try(); err != nil {
		return nil, err
	}
	err := try(item)
	if errors.Is(err, ErrRefused) {
		return map[T]error{item: err}, nil
	}
	return nil, err
}
