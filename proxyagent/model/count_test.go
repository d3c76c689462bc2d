package model

import (
	"maps"
	"testing"
)

func TestCountKeepsNoKeyThatCountsNothing(t *testing.T) {
	of := map[string]int{}
	for _, step := range []struct {
		by      int
		changed bool
		left    map[string]int
	}{
		{0, false, map[string]int{}},
		{Sign(true), true, map[string]int{"a": 1}},
		{2, false, map[string]int{"a": 3}},
		{Sign(false), false, map[string]int{"a": 2}},
		{-2, true, map[string]int{}},
	} {
		if changed := Count(of, "a", step.by); changed != step.changed || !maps.Equal(of, step.left) {
			t.Errorf("%+d: changed %t and left %v, want %t and %v", step.by, changed, of, step.changed, step.left)
		}
	}
}
