package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// ErrNothing is for a question about something that is not there.
var ErrNothing = errors.New("there is no such object")

// absent says that there is no object of a name, which ones have nearly that name, and what lists
// all of them.
func absent(kind, name string, known []string, lister string) error {
	if like := near(name, known); len(like) > 0 {
		return fmt.Errorf("%s %q: %w; did you mean %s?", kind, name, ErrNothing, strings.Join(like, " or "))
	}
	return fmt.Errorf("%s %q: %w; `%s` lists all", kind, name, ErrNothing, lister)
}

// get reads an object without namespace. If there is none, the error is that of absent, for which
// it lists all of its kind.
func get(ctx context.Context, s *cli.Cluster, name string, o client.Object, all client.ObjectList, kind, lister string) error {
	err := s.Get(ctx, client.ObjectKey{Name: name}, o)
	switch {
	case err == nil:
		return nil
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading %s %s: %w", kind, name, cli.Permission(err))
	}
	if err := s.ListNamed(ctx, all, "all objects of the kind "+kind); err != nil {
		return err
	}
	var known []string
	_ = meta.EachListItem(all, func(one runtime.Object) error { // fails for what is no list
		known = append(known, one.(client.Object).GetName())
		return nil
	})
	return absent(kind, name, known, lister)
}

// near are up to three of the known names that a user may have meant.
func near(name string, known []string) (like []string) {
	const most, longest = 3, 64 // an edit distance takes as many steps as both lengths multiplied
	if name == "" || len(name) > longest {
		return nil
	}
	for _, one := range known {
		typo := len(one) <= longest && edits(name, one) <= max(1, len(name)/3)
		if !slices.Contains(like, one) && (typo || strings.HasPrefix(one, name) || strings.HasPrefix(name, one)) {
			like = append(like, one)
		}
	}
	slices.SortFunc(like, func(a, b string) int {
		return edits(name, a[:min(len(a), longest)]) - edits(name, b[:min(len(b), longest)])
	})
	return like[:min(len(like), most)]
}

// edits is how many letters are to be put in, taken out or replaced to make one text of another.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
