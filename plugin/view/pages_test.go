package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// paged answers lists of Services, of which there are so many, and expires as many times.
func paged(services, expires int) client.Reader {
	return interceptor.NewClient(nil, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
		o, list := (&client.ListOptions{}).ApplyOptions(options), into.(*corev1.ServiceList)
		if len(list.Items) > 0 || list.Continue != "" || list.RemainingItemCount != nil {
			return errors.New("the list has what the last page had")
		}
		from := 0
		if o.Continue != "" {
			if expires--; expires >= 0 {
				return apierrors.NewResourceExpired("too old")
			}
			_, _ = fmt.Sscan(o.Continue, &from)
		}
		end := min(services, from+int(o.Limit))
		list.Items = make([]corev1.Service, end-from)
		for i := range list.Items {
			list.Items[i].Name = fmt.Sprint(from + i)
		}
		if end < services {
			list.Continue, list.RemainingItemCount = fmt.Sprint(end), new(int64(services-end))
		}
		return nil
	}})
}

func TestPages(t *testing.T) {
	for name, tc := range map[string]struct {
		services, expires int
		want              string
		err               string
	}{
		"none":             {0, 0, "1: 0+0, 0 left", ""},
		"less than a page": {2, 0, "1: 0+2, 0 left", ""},
		"a page":           {3, 0, "1: 0+3, 0 left", ""},
		"three pages":      {7, 0, "1: 0+3, 4 left; 1: 3+3, 1 left; 1: 6+1, 0 left", ""},
		"one expires":      {4, 1, "1: 0+3, 1 left; 2: 0+3, 1 left; 2: 3+1, 0 left", ""},
		"all expire":       {4, 9, "1: 0+3, 1 left; 2: 0+3, 1 left; 3: 0+3, 1 left", "it took too long to read all pages: 3 times"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			list := &corev1.ServiceList{}
			err := Pages(t.Context(), paged(tc.services, tc.expires), list, 3, func(p Page) error {
				got = append(got, fmt.Sprintf("%d: %d+%d, %d left", p.Attempt, p.Before, len(list.Items), p.Left))
				return nil
			})
			if text := strings.Join(got, "; "); text != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, pages %q, want %q", err, text, tc.want)
			}
		})
	}
	broken := errors.New("broken")
	if err := Pages(t.Context(), paged(9, 0), &corev1.ServiceList{}, 0, func(Page) error { return broken }); !slices.Contains([]error{err}, broken) {
		t.Errorf("an error of the page is %v", err)
	}
}
