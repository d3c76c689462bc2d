package etcdstore

import "strings"

// keys translates between keys as etcd has them and keys relative to the API server's prefix. Its value is the prefix, with a slash
// on both sides.
type keys string

func newKeys(prefix string) keys { return keys(strings.TrimSuffix(prefix, "/") + "/") }

// absolute returns a key as etcd has it. A key that begins with a slash is one already.
func (k keys) absolute(key string) string {
	if strings.HasPrefix(key, "/") {
		return key
	}
	return string(k) + key
}

// relative is the inverse of absolute: a key of somebody else stays absolute.
func (k keys) relative(key string) string { return strings.TrimPrefix(key, string(k)) }

// below returns what all keys below a folder begin with. The folder services/specs does not hold services/specs2.
func (k keys) below(folder string) string { return strings.TrimSuffix(k.absolute(folder), "/") + "/" }
