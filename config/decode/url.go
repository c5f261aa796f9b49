package decode

import (
	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/endpoint"
	"github.com/pgweir/pgweir/config/schema"
	"github.com/pgweir/pgweir/config/values"
)

// urlSource is the name of a URL that takes the place of a file.
const urlSource = "URL"

// URL makes a File of a lone URL: the upstream "main", every database, and as the only role
// that of the URL. What was typed at the console comes over it, as in [File].
func URL(url string, getenv func(string) string, set map[string]string) *Decoder {
	d := newDecoder(&document.Source{Name: urlSource, Alias: "url", Text: url}, getenv)
	const upstream = "main"
	everything := document.Span{From: 0, To: len(url)}
	d.countNames(document.Document{Sections: []document.Section{
		{Path: []string{schema.UpstreamKind, upstream}, At: everything}, {Path: []string{schema.DatabaseKind, schema.AnyName}, At: everything},
	}})
	d.decode(document.Document{})
	u := &d.File.Upstreams[0]
	for problem := endpoint.PostgresURL(&u.URL).Set(values.Value{Node: document.Node{Kind: document.Text, Text: url}}); problem != nil; problem = problem.Also {
		at := problem.At
		if !at.Known() {
			at = everything
		}
		d.complain("", at, problem.Message, problem.Advice)
	}
	if len(d.problems) > 0 {
		return d
	}
	a := &d.File.Auth
	a.Type, a.File, a.User, a.Password = schema.Scram, "", u.URL.User, u.URL.Password
	if !u.URL.Password.IsSet() {
		a.Type = schema.Trust
	}
	d.given[document.Dotted(schema.UpstreamKind, upstream)+".url"] = d.here(everything)
	d.given["auth.auth_type"] = d.here(everything)
	d.override(set)
	d.check()
	return d
}
