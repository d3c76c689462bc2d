package main

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// What a template is made of. Any other value stands for itself.
type (
	// mapping and list are YAML's, with parts that are there under a condition.
	mapping []field
	list    []item
	field   struct {
		key, when string // when is a condition of text/template, empty for always
		value     any
	}
	item struct {
		when  string
		value any
	}
	// inline is an action that prints a scalar, block a pipeline that prints a mapping or a list,
	// literal one that prints lines of a text. As the value of a field without a key, a block prints
	// further fields, where it prints anything.
	inline  string
	block   string
	literal string
)

// version is a value under a condition: with one component on. The first of several has none, and
// is what is there with all of them off.
type version struct {
	when  string
	value any
}

// merge makes one value of versions that are all there; ok is false if they have nothing in common.
// Components that touch the same place must touch different parts of it.
func merge(versions []version) (merged any, ok bool, err error) {
	first := versions[0].value
	if !slices.ContainsFunc(versions, func(v version) bool { return !reflect.DeepEqual(v.value, first) }) {
		return plain(first), true, nil
	}
	switch first := first.(type) {
	case map[string]any:
		merged, err = mergeMappings(versions)
		return merged, true, err
	case []any: // components only add to a list
		if slices.ContainsFunc(versions, func(v version) bool { return len(v.value.([]any)) < len(first) }) {
			return nil, false, nil
		}
		merged, err = mergeLists(versions, len(first))
		return merged, true, err
	}
	return nil, false, nil
}

func mergeMappings(versions []version) (merged mapping, err error) {
	keys := map[string]bool{}
	for _, v := range versions {
		for key := range v.value.(map[string]any) {
			keys[key] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		fields, err := mergeField(key, versions)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		merged = append(merged, fields...)
	}
	return merged, nil
}

// mergeField returns the field of all versions, or one for each value that it has.
func mergeField(key string, versions []version) (fields []field, err error) {
	var present []version
	for _, v := range versions {
		if value, found := v.value.(map[string]any)[key]; found {
			present = append(present, version{v.when, value})
		}
	}
	if present[0].when == "" {
		value, ok, err := merge(present)
		if err != nil || ok {
			return []field{{key, unless(versions, present), value}}, err
		}
	}
	var base, added []version // values that are there without components, and with one alone
	for _, v := range present {
		switch {
		case v.when == "" || len(base) > 0 && reflect.DeepEqual(v.value, base[0].value):
			base = append(base, v)
		case len(added) > 0 && !reflect.DeepEqual(v.value, added[0].value):
			return nil, fmt.Errorf("%q and %q both change it", added[0].when, v.when)
		default:
			added = append(added, v)
		}
	}
	if len(base) > 0 {
		fields = append(fields, field{key, unless(versions, base), plain(base[0].value)})
	}
	if len(added) > 0 {
		fields = append(fields, field{key, either(added), plain(added[0].value)})
	}
	return fields, nil
}

// mergeLists merges the first n items one by one. What follows them comes with its component.
func mergeLists(versions []version, n int) (merged list, err error) {
	for i := range n {
		var items []version
		for _, v := range versions {
			items = append(items, version{v.when, v.value.([]any)[i]})
		}
		value, ok, err := merge(items)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("a component changes item %d of a list: let it add one", i)
		}
		merged = append(merged, item{value: value})
	}
	for _, v := range versions {
		for _, value := range v.value.([]any)[n:] {
			merged = append(merged, item{v.when, plain(value)})
		}
	}
	return merged, nil
}

// unless is the condition that none of those versions is wanted that are not among some.
func unless(versions, some []version) string {
	var others []version
	for _, v := range versions {
		if !slices.ContainsFunc(some, func(s version) bool { return s.when == v.when }) {
			others = append(others, v)
		}
	}
	switch len(others) {
	case 0:
		return ""
	case 1:
		return "not " + others[0].when
	}
	return "not (" + either(others) + ")"
}

// either is the condition that one of versions is wanted.
func either(versions []version) string {
	if len(versions) == 1 {
		return versions[0].when
	}
	var conditions []string
	for _, v := range versions {
		conditions = append(conditions, v.when)
	}
	return "or " + strings.Join(conditions, " ")
}

// plain is a value without conditions.
func plain(value any) any {
	switch v := value.(type) {
	case map[string]any:
		m := make(mapping, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			m = append(m, field{key: key, value: plain(v[key])})
		}
		return m
	case []any:
		l := make(list, 0, len(v))
		for _, value := range v {
			l = append(l, item{value: plain(value)})
		}
		return l
	}
	return value
}
