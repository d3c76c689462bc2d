package etcdstore

import "testing"

func TestKeys(t *testing.T) {
	for _, tc := range []struct{ prefix, key, absolute, relative, below string }{
		{"", "ranges/serviceips", "/registry/ranges/serviceips", "ranges/serviceips", "/registry/ranges/serviceips/"},
		{"/registry", "services/specs/", "/registry/services/specs/", "services/specs/", "/registry/services/specs/"},
		{"/registry/", "ranges", "/registry/ranges", "ranges", "/registry/ranges/"},
		{"registry", "ranges", "/registry/ranges", "ranges", "/registry/ranges/"},
		{"/a/b", "ranges", "/a/b/ranges", "ranges", "/a/b/ranges/"},
		{"/a/b", "/a/b/ranges", "/a/b/ranges", "ranges", "/a/b/ranges/"},
		{"/a/b", "/a/bc", "/a/bc", "/a/bc", "/a/bc/"},
		{"/a", "/registry/ranges", "/registry/ranges", "/registry/ranges", "/registry/ranges/"},
		{"/", "ranges", "/ranges", "ranges", "/ranges/"},
		{"", "", "/registry/", "", "/registry/"},
		{"", "/", "/", "/", "/"},
	} {
		k := newKeys(Config{Prefix: tc.prefix}.prefix())
		if got := k.absolute(tc.key); got != tc.absolute {
			t.Errorf("prefix %q: absolute(%q) = %q, want %q", tc.prefix, tc.key, got, tc.absolute)
		}
		if got := k.relative(tc.absolute); got != tc.relative {
			t.Errorf("prefix %q: relative(%q) = %q, want %q", tc.prefix, tc.absolute, got, tc.relative)
		}
		if got := k.below(tc.key); got != tc.below {
			t.Errorf("prefix %q: below(%q) = %q, want %q", tc.prefix, tc.key, got, tc.below)
		}
	}
}
