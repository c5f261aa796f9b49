package decode

import "slices"

// laterKey is a key of the design that this version does not have.
type laterKey struct {
	section string // "" for the top
	name    string
	already string // the value that says what this version does anyway, as TOML; "" if there is none
}

// laterKeys are refused, because ignoring them would promise what is not kept; but a value
// that asks for nothing more than this version does is accepted.
func laterKeys() []laterKey { return nil }

// laterSections are the sections of the design that this version does not have.
func laterSections() []string { return []string{"cost"} }

// findLater looks up a key.
func findLater(section, key string) (laterKey, bool) {
	list := laterKeys()
	i := slices.IndexFunc(list, func(k laterKey) bool { return k.section == section && k.name == key })
	if i < 0 {
		return laterKey{}, false
	}
	return list[i], true
}
