package trace

import (
	"errors"
	"fmt"
	"strings"
)

// inSet matches when a set has the part of the packet that its type and the directions ask for.
func inSet(args []string) match {
	if len(args) != 2 {
		return nil
	}
	name, directions := args[0], strings.Split(args[1], ",")
	return func(w World, s state) answer {
		kind, err := w.Kind(name)
		if err != nil {
			return cannotTell("what is in the set %s: %v", name, err)
		}
		entry, err := entryOf(kind, directions, s)
		if err != nil {
			return cannotTell("what is in the set %s: %v", name, err)
		}
		has, err := w.Has(name, entry)
		if err != nil {
			return cannotTell("whether %s is in the set %s: %v", entry, name, err)
		}
		return when(has)
	}
}

// entryOf writes what a set of a type is asked for. Each part of the type takes the next direction.
func entryOf(kind string, directions []string, s state) (string, error) {
	_, list, ok := strings.Cut(kind, ":")
	parts := strings.Split(list, ",")
	if !ok || len(parts) > len(directions) {
		return "", fmt.Errorf("its type %s is not understood", kind)
	}
	words := make([]string, len(parts))
	for i, part := range parts {
		word, err := partOf(kind, part, directions[i], s)
		if err != nil {
			return "", err
		}
		words[i] = word
	}
	return strings.Join(words, ","), nil
}

func partOf(kind, part, direction string, s state) (string, error) {
	source := direction == "src"
	switch {
	case part == "port" && source:
		return "", fmt.Errorf("the source port is not known")
	case kind == "bitmap:port":
		return fmt.Sprint(s.Dst.Port()), nil
	case part == "port":
		return fmt.Sprintf("%s:%d", strings.ToLower(s.Protocol.String()), s.Dst.Port()), nil
	case source && !s.Src.IsValid():
		return "", errors.New(whichAddress)
	case (part == "ip" || part == "net") && source:
		return s.Src.String(), nil
	case part == "ip" || part == "net":
		return s.Dst.Addr().String(), nil
	default:
		return "", fmt.Errorf("its type %s is not understood", kind)
	}
}
