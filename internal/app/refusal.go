package app

import (
	"regexp"
	"strings"

	"soapway/config"
	"soapway/proxy"
)

// optionText is how the packages below name an option that they refuse. The
// user has keys, and no options.
var optionText = regexp.MustCompile(`^(?:[a-z ]+: )*?(?:(?:[a-z]+ )?options: )?(?:route [0-9]+ "[^"]*": )?option [A-Za-z.]+:? `)

// refusals are the problems for an error of a part that was made of a key: one
// for each of its lines. What config lets through should never come to that.
func refusals(cfg *config.Config, key string, err error) (problems config.Problems) {
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSuffix(line, "\n")
		if at := optionText.FindString(line); at != "" {
			line = "cannot be used: " + line[len(at):]
		}
		problems = append(problems, cfg.Problem(key, line, ""))
	}
	return problems
}

// tableProblems gives the error of a table of routes the places of the routes
// that are to blame.
func tableProblems(cfg *config.Config, pools pools, err error) (problems config.Problems) {
	opt := tableOptions(cfg, pools, nil, nil)
	all := opt.Routes
	for i := range all {
		opt.Routes = all[i : i+1]
		if _, err := proxy.Compile(opt); err != nil {
			problems = append(problems, refusals(cfg, "routes."+all[i].Name, err)...)
		}
	}
	if problems == nil { // not one by itself
		problems = refusals(cfg, "routes", err)
	}
	return problems
}
