package admission

import "fmt"

// Class is how much work matters: who goes first, and who is refused first. It is not how
// long work may wait. The zero value is Critical, what a request is that says nothing.
type Class int8

// The classes, highest first.
const (
	CriticalPlus  Class = iota - 1 // only by configuration: never shed to make room
	Critical                       // a user waits for it
	SheddablePlus                  // can be done later: batches
	Sheddable                      // can be left out
)

// Classes is how many there are.
const Classes = 4

// index is the class's place in tables, 0 for the highest. What is no class counts as the
// lowest.
func (c Class) index() int {
	if c < CriticalPlus || c > Sheddable {
		return Classes - 1
	}
	return int(c - CriticalPlus)
}

// ClassAt is the class of an index of a table of [Classes]: 0 is the highest.
func ClassAt(index int) Class { return CriticalPlus + Class(index) }

var classNames = [Classes]string{"critical_plus", "critical", "sheddable_plus", "sheddable"}

// String returns the class as files, tags and metrics name it.
func (c Class) String() string { return classNames[c.index()] }

// ParseClass returns the class of a name; ok is false if there is none of that name.
func ParseClass(name string) (c Class, ok bool) {
	for i, n := range classNames {
		if n == name {
			return ClassAt(i), true
		}
	}
	return Critical, false
}

// UnmarshalText sets c by its name.
func (c *Class) UnmarshalText(text []byte) error {
	v, ok := ParseClass(string(text))
	if !ok {
		return fmt.Errorf("unknown class %q", text)
	}
	*c = v
	return nil
}

// MarshalText returns the name.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }
