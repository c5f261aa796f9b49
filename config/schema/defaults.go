package schema

import (
	"fmt"
	"strings"

	"github.com/pgweir/pgweir/config/values"
)

// Defaults is a complete file: every key with its default, or an example where there is
// none, below a comment with its meaning, unit and values. Examples that would change
// anything are comments. It ends with a newline.
func Defaults() string {
	var b strings.Builder
	b.WriteString("# Every key of pgweir.toml with its default. Keep what differs and leave out the rest;\n" +
		"# only the url of an upstream and one database have to be there.\n")
	for _, s := range Kinds() {
		prefix := ""
		switch s.Kind {
		case "":
		case UpstreamKind:
			b.WriteString("\n# One Postgres cluster. The name is yours.\n[upstream.main]\n")
		case DatabaseKind:
			b.WriteString("\n# What clients may name; \"*\" is every name that has no section of its own.\n[database.\"*\"]\n")
		case WorkloadKind:
			b.WriteString(workloadsComment())
		case MatchKind:
			prefix = "# "
			b.WriteString("\n# Which clients are its own. The one called \"default\" has no match, so this is an\n" +
				"# example for another; match = { role = [\"app\"] } says the same.\n# [workload.match]\n")
		case RoleKind:
			prefix = "# "
			b.WriteString("\n# What a role may ask for; \"*\" is every role that has no section of its own.\n# [role.\"*\"]\n")
		case RateKind:
			prefix = "# "
			b.WriteString("\n# How much one caller may ask for. There is none unless a file has one.\n# [[rate]]\n")
		case RateMatchKind:
			prefix = "# "
			b.WriteString("\n# Whose work it is for; match = { role = [\"app\"] } says the same.\n# [rate.match]\n")
		default:
			b.WriteString("\n" + s.Header() + "\n")
		}
		for _, f := range s.Fields {
			f.write(&b, prefix)
		}
	}
	return b.String()
}

// workloadsComment tells what stands before and behind the workloads of a file.
func workloadsComment() string {
	var b strings.Builder
	b.WriteString("\n# How groups of clients are treated. The first that matches is taken, in the order of\n" +
		"# the file. \"default\" comes last and takes all others. Before it, unless the file has\n" +
		"# one of its name, stands this one, for programs that need a session:\n#\n# [[workload]]\n")
	for _, s := range Sections(&File{Workloads: []Workload{BuiltIn(ToolsWorkload)}}) {
		for _, f := range s.Fields {
			if f.Default != "" && toolsDefaults()[f.Name] == f.Default {
				b.WriteString("# " + f.Name + " = " + f.Default + "\n")
			}
		}
	}
	for _, line := range wrap("match = { application_name = "+values.QuoteList(toolNames())+" }", 88) {
		b.WriteString("# " + line + "\n")
	}
	b.WriteString("[[workload]]\n")
	return b.String()
}

// write writes a key with its comment. With a prefix the key is a comment too.
func (f Field) write(b *strings.Builder, prefix string) {
	text := f.Doc + " Values: " + f.Type.Admits
	if f.Unit != "" {
		text += " (" + f.Unit + ")"
	}
	if f.Restart {
		text += "; a change needs a restart"
	}
	b.WriteString("\n")
	for _, line := range wrap(text+".", 88) {
		b.WriteString("# " + line + "\n")
	}
	if f.Name == "dbname" { // an example would send all databases to one
		prefix = "# "
	}
	fmt.Fprintf(b, "%s%s = %s\n", prefix, f.Name, f.usual())
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
