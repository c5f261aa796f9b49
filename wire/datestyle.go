package wire

import "strings"

// Settings returns the settings that a start-up packet asks for, in the order in which
// Postgres applies them: those in its options, then those that it names. Of equal names the
// last counts; DateStyle, of which a value may be only a part, is then told whole. The error
// is an *Error that can be sent as an answer.
func (s *Startup) Settings() ([]Param, error) {
	var list []Param
	if o, ok := s.Get("options"); ok {
		split, err := SplitOptions(o)
		if err != nil {
			return nil, err
		}
		list = split
	}
	for _, p := range s.Params {
		switch p.Name {
		case "user", "database", "options", "replication":
		default:
			list = append(list, p)
		}
	}
	wholeDateStyles(list)
	return list, nil
}

// wholeDateStyles adds to each DateStyle of a list what those before it have left in force.
func wholeDateStyles(list []Param) {
	var now dateStyle
	for i := range list {
		if !strings.EqualFold(list[i].Name, "DateStyle") {
			continue
		}
		next, ok := now.then(list[i].Value)
		if !ok {
			return // Postgres says what is wrong with it
		}
		if now != (dateStyle{}) {
			list[i].Value = next.String()
		}
		now = next
	}
}

// dateStyle is what a value of DateStyle says; "" is what it leaves as it was.
type dateStyle struct{ style, order string }

// then is a style after a further value was set, or false if that is not understood.
func (d dateStyle) then(value string) (dateStyle, bool) {
	var said dateStyle
	for _, word := range strings.Split(value, ",") {
		style, order := dateStyleWord(strings.ToUpper(strings.TrimSpace(word)))
		switch {
		case style == "" && order == "", style != "" && said.style != "" && style != said.style, order != "" && said.order != "" && order != said.order:
			return d, false
		case style != "":
			said.style = style
		default:
			said.order = order
		}
	}
	if said.style == "German" && said.order == "" {
		said.order = "DMY"
	}
	if said.style == "" {
		said.style = d.style
	}
	if said.order == "" {
		said.order = d.order
	}
	return said, true
}

// dateStyleWord is one word of a value, in upper case: a style or an order; "" and "" are a
// word that is neither. DEFAULT, which only the server knows, is one of those.
func dateStyleWord(word string) (style, order string) {
	switch {
	case word == "ISO":
		return "ISO", ""
	case word == "SQL":
		return "SQL", ""
	case strings.HasPrefix(word, "POSTGRES"):
		return "Postgres", ""
	case word == "GERMAN":
		return "German", ""
	case word == "YMD":
		return "", "YMD"
	case word == "DMY", strings.HasPrefix(word, "EURO"):
		return "", "DMY"
	case word == "MDY", word == "US", strings.HasPrefix(word, "NONEURO"):
		return "", "MDY"
	}
	return "", ""
}

func (d dateStyle) String() string {
	if d.style != "" && d.order != "" {
		return d.style + ", " + d.order
	}
	return d.style + d.order
}
