package view

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize is how many objects are read at once, as kubectl does: each may have 1.5 MiB.
const pageSize = 500

// mostAttempts is how often a list is begun. An API server keeps what a list goes on from for some
// minutes: one that has expired so often is read more slowly than that.
const mostAttempts = 3

// Page is where in a list its reader is.
type Page struct {
	// Attempt counts from 1: a later one begins the list anew, and what was read before is void.
	Attempt int
	// Before is how many objects this attempt has read before this page; Left is how many the API
	// server counts behind it, 0 if it does not tell.
	Before, Left int
}

// Pages reads a list by pages of size objects, 0 for as many as kubectl, into list, and calls each
// for every page. Neither list nor its items may be kept. All pages show one moment, that of the
// resourceVersion of list. Where the API server has forgotten it (410 Expired), the list begins
// anew.
func Pages(ctx context.Context, from client.Reader, list client.ObjectList, size int64, each func(Page) error, options ...client.ListOption) error {
	if size == 0 {
		size = pageSize
	}
	for attempt := 1; ; attempt++ {
		err := pagesOnce(ctx, from, list, size, attempt, each, options)
		if !apierrors.IsResourceExpired(err) {
			return err
		}
		if attempt == mostAttempts {
			return fmt.Errorf("it took too long to read all pages: %d times the API server had forgotten what the next one was of: %w", attempt, err)
		}
	}
}

func pagesOnce(ctx context.Context, from client.Reader, list client.ObjectList, size int64, attempt int, each func(Page) error, options []client.ListOption) error {
	at := Page{Attempt: attempt}
	for next := ""; ; {
		if err := meta.SetList(list, nil); err != nil { // or what a page lacks would be that of the one before
			return err
		}
		list.SetContinue("")
		list.SetRemainingItemCount(nil)
		page := &client.ListOptions{}
		page.ApplyOptions(options)
		page.Limit, page.Continue = size, next
		if err := from.List(ctx, list, page); err != nil {
			return err
		}
		at.Left = 0
		if left := list.GetRemainingItemCount(); left != nil {
			at.Left = int(*left)
		}
		if err := each(at); err != nil {
			return err
		}
		at.Before += meta.LenList(list)
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}
