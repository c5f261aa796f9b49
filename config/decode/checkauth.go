package decode

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/schema"
)

// checkAuth sees to it that clients can prove who they are as they are asked to.
func (d *Decoder) checkAuth() {
	a := &d.File.Auth
	if !d.Fine("auth.auth_type", "auth.auth_file", "auth.auth_query", "auth.hba_file", "auth.ident_file") {
		return
	}
	passwords := a.Type == schema.Scram || a.Type == schema.MD5 || a.Type == schema.Password
	_, fileGiven := d.given["auth.auth_file"]
	switch {
	case !fileGiven && (!passwords && a.Type != schema.HBA || a.Query != ""):
		a.File = ""
	case passwords && a.File == "" && a.User == "" && a.Query == "":
		d.complainAt("auth.auth_file", d.placeOf("auth.auth_file"), fmt.Sprintf(`is "none", and auth_type = %q needs roles with passwords`, a.Type),
			`Write auth_file = "userlist.txt", or an auth_query.`)
	}
	if t := &d.File.TLS; a.Type == schema.Cert && d.Fine("tls.sslmode", "tls.cert_file", "tls.key_file", "tls.ca_file") && (!t.Enabled() || t.CAFile == "") {
		d.complainAt("auth.auth_type", d.placeOf("auth.auth_type"), `"cert" needs clients with certificates, and [tls] asks for none`, "Write cert_file, key_file and ca_file in [tls].")
	}
	d.checkAuthQuery(a, passwords)
	d.checkRuleFiles(a)
}

// checkAuthQuery looks at the statement and at who would need it.
func (d *Decoder) checkAuthQuery(a *schema.Auth, passwords bool) {
	const key = "auth.auth_query"
	switch {
	case a.Query == "":
	case !strings.Contains(a.Query, "$1"):
		d.complainAt(key, d.placeOf(key), "has no $1, which stands for the role", "Write SELECT rolname, rolpassword FROM pg_catalog.pg_authid WHERE rolname = $1.")
	case !passwords && a.Type != schema.HBA:
		d.complainAt(key, d.placeOf(key, "auth.auth_type"), fmt.Sprintf("nobody is asked for a password with auth_type = %q", a.Type), `Leave it out, or choose another auth_type.`)
	}
	if a.Query == "" {
		return
	}
	for i := range d.File.Upstreams {
		u := &d.File.Upstreams[i]
		reserve := document.Dotted(schema.UpstreamKind, u.Name) + ".reserve"
		if _, given := d.given[reserve]; given && u.Reserve == 0 && d.Fine(reserve) {
			d.complainAt(reserve, d.placeOf(reserve), "0 leaves no connection for the auth_query", "Write reserve = 1.")
		}
	}
}

// checkRuleFiles sees to it that the files are there that are used, and no others.
func (d *Decoder) checkRuleFiles(a *schema.Auth) {
	const hba, ident = "auth.hba_file", "auth.ident_file"
	switch {
	case a.Type == schema.HBA && a.HBAFile == "":
		d.complainAt(hba, d.placeOf(hba, "auth.auth_type"), `is missing, and auth_type = "hba" needs it`, `Write hba_file = "pg_hba.conf".`)
	case a.Type != schema.HBA && a.HBAFile != "":
		d.complainAt(hba, d.placeOf(hba), "is not used with auth_type = "+strconv.Quote(string(a.Type)), `Write auth_type = "hba", or leave it out.`)
	}
	if a.IdentFile != "" && a.Type != schema.HBA && a.Type != schema.Cert && a.Type != schema.Peer {
		d.complainAt(ident, d.placeOf(ident), "is not used with auth_type = "+strconv.Quote(string(a.Type)), `Maps are for "cert", "peer" and "hba". Leave it out.`)
	}
}
