package access

// Denied is why a request was not allowed, as it is counted.
type Denied string

// The reasons.
const (
	DeniedCredentials Denied = "credentials" // nobody knows what was shown, or nothing was (401)
	DeniedSite        Denied = "site"        // the page of another site, or a foreign Host (403)
	DeniedScope       Denied = "scope"       // the caller is known, and may not do that there, or not send under that name (403)
	DeniedUnavailable Denied = "unavailable" // who the caller is could not be found out (503)
)

// AllDenied are all reasons.
func AllDenied() []Denied {
	return []Denied{DeniedCredentials, DeniedSite, DeniedScope, DeniedUnavailable}
}
