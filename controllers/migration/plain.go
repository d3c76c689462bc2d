package migration

import (
	"context"
	"errors"
	"fmt"
)

// Plain makes sure that the API servers do not encrypt what they store: they could not read IPAddresses that are written past
// them. It looks at what exists in every cluster; that IPAddresses alone are to be encrypted, before there are any, shows nowhere.
func Plain(ctx context.Context, store Store) error {
	for _, prefix := range []string{prefixServices + "default/", prefixIPAddresses} {
		_, err := store.List(ctx, prefix, 0, func(v Value) error {
			if errors.Is(v.Err, ErrEncrypted) {
				return fmt.Errorf("%s: %w; the API servers could not read IPAddresses that are written plainly, unless their EncryptionConfiguration has an identity provider: "+
					"then say --plain, otherwise serve the API and use `migrate run`", v.Key, v.Err)
			}
			return errSeen
		})
		if err != nil && !errors.Is(err, errSeen) {
			return err
		}
	}
	return nil
}

// errSeen ends a list after its first key.
var errSeen = errors.New("seen")
