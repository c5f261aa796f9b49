package config

import (
	"fmt"
	"strings"
)

// Defaults is a complete file: every key with its default, or an example where there is
// none, below a comment with its meaning, unit and values. It ends with a newline.
func Defaults() string {
	var b strings.Builder
	b.WriteString("# Every key of pgweir.toml with its default. Keep what differs and leave out the rest;\n" +
		"# only the url of an upstream and one database have to be there.\n")
	for _, s := range sections() {
		switch {
		case s.name == "upstream":
			b.WriteString("\n# One Postgres cluster. The name is yours.\n[upstream.main]\n")
		case s.name == "database":
			b.WriteString("\n# What clients may name; \"*\" is every name that has no section of its own.\n[database.\"*\"]\n")
		case s.name != "":
			b.WriteString("\n" + s.header() + "\n")
		}
		for _, f := range s.fields {
			f.write(&b)
		}
	}
	return b.String()
}

// write writes a key with its comment.
func (f field) write(b *strings.Builder) {
	text := f.Doc + " Values: " + f.kind.admits
	if f.Unit != "" {
		text += " (" + f.Unit + ")"
	}
	b.WriteString("\n")
	for _, line := range wrap(text+".", 88) {
		b.WriteString("# " + line + "\n")
	}
	switch {
	case f.Default != "":
		fmt.Fprintf(b, "%s = %s\n", f.Name, f.Default)
	case f.Name == "dbname": // an example would send all databases to one
		fmt.Fprintf(b, "# %s = %s\n", f.Name, f.Example)
	default:
		fmt.Fprintf(b, "%s = %s\n", f.Name, f.Example)
	}
}

// wrap breaks a text into lines of at most so many bytes.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
