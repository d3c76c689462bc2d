// Sign signs a file of a release as minisign does:
//
//	sign PUBLIC               looks whether there is a secret key, and whether it is that of PUBLIC
//	sign PUBLIC FILE COMMENT  writes FILE.minisig, which vouches for the comment too
//
// PUBLIC is the file with the key that users verify with: what another key signs is refused here,
// and not by them. The secret key is in the file that MINISIGN_KEY_FILE names, or is the value of
// MINISIGN_KEY; MINISIGN_PASSWORD decrypts it. Neither is an argument, because other users of a
// machine can read those. The same file, key and comment give the same bytes: there is no time.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"aead.dev/minisign"
)

func main() {
	if err := run(os.Args[1:], os.Getenv); err != nil {
		fmt.Fprintln(os.Stderr, "sign:", err)
		os.Exit(1)
	}
}

func run(args []string, getenv func(string) string) error {
	if len(args) != 1 && len(args) != 3 {
		return errors.New("want PUBLIC, or PUBLIC FILE COMMENT")
	}
	public, err := minisign.PublicKeyFromFile(args[0])
	if err != nil {
		return fmt.Errorf("reading the public key %s: %w", args[0], err)
	}
	secret, err := secretKey(getenv)
	if err != nil {
		return err
	}
	if !public.Equal(secret.Public()) {
		return fmt.Errorf("the secret key %016X is not that of %s, which is %016X", secret.ID(), args[0], public.ID())
	}
	if len(args) == 1 {
		return nil
	}
	return sign(secret, args[1], args[2])
}

// secretKey reads the secret key. Its errors say nothing of it.
func secretKey(getenv func(string) string) (key minisign.PrivateKey, err error) {
	file, text, password := getenv("MINISIGN_KEY_FILE"), []byte(getenv("MINISIGN_KEY")), getenv("MINISIGN_PASSWORD")
	switch {
	case file == "" && len(text) == 0:
		return key, errors.New("there is no secret key: set MINISIGN_KEY_FILE to its file, or MINISIGN_KEY to its text")
	case file != "" && len(text) > 0:
		return key, errors.New("MINISIGN_KEY_FILE and MINISIGN_KEY are both set: leave one")
	case file != "":
		if text, err = os.ReadFile(file); err != nil {
			return key, fmt.Errorf("reading the secret key: %w", err)
		}
	}
	if !minisign.IsEncrypted(text) {
		if key.UnmarshalText(text) != nil {
			return key, errors.New("what MINISIGN_KEY_FILE or MINISIGN_KEY give is no secret key of minisign")
		}
		return key, nil
	}
	if password == "" {
		return key, errors.New("the secret key is encrypted: set MINISIGN_PASSWORD")
	}
	if key, err = minisign.DecryptKey(password, text); err != nil {
		return key, errors.New("the secret key cannot be decrypted: MINISIGN_PASSWORD is not its password, or it is damaged")
	}
	return key, nil
}

// sign writes the signature beside the file.
func sign(key minisign.PrivateKey, file, comment string) error {
	if strings.ContainsAny(comment, "\r\n") {
		return errors.New("COMMENT has more than one line")
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	signature := minisign.SignWithComments(key, content, comment, fmt.Sprintf("signature of key %016X", key.ID()))
	return os.WriteFile(file+".minisig", signature, 0o644)
}
