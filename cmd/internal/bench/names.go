package bench

import (
	"fmt"
	"slices"
	"strings"
)

func tellNames() []string     { return []string{"comment", "set", "startup", "none"} }
func protocolNames() []string { return []string{"simple", "extended", "prepared"} }
func leaveNames() []string    { return []string{"close", "cancel", "cancel-close", "walk"} }

// named finds a name in a list of them.
func named(what, text string, names []string) (int, error) {
	if i := slices.Index(names, text); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%s %q: it is one of %s", what, text, strings.Join(names, ", "))
}

// nameOf is the name of an enum's value.
func nameOf(i int, names []string) string {
	if i < 0 || i >= len(names) {
		return "unknown"
	}
	return names[i]
}

// String returns the name that [ParseTell] reads.
func (t Tell) String() string { return nameOf(int(t), tellNames()) }

// ParseTell reads comment, set, startup or none.
func ParseTell(text string) (Tell, error) {
	i, err := named("tell", text, tellNames())
	return Tell(i), err
}

// String returns the name that [ParseProtocol] reads.
func (p Protocol) String() string { return nameOf(int(p), protocolNames()) }

// ParseProtocol reads simple, extended or prepared.
func ParseProtocol(text string) (Protocol, error) {
	i, err := named("protocol", text, protocolNames())
	return Protocol(i), err
}

// String returns the name that [ParseLeave] reads.
func (l Leave) String() string { return nameOf(int(l), leaveNames()) }

// ParseLeave reads close, cancel, cancel-close or walk.
func ParseLeave(text string) (Leave, error) {
	i, err := named("leave", text, leaveNames())
	return Leave(i), err
}
