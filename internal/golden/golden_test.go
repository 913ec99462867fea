package golden

import (
	"testing"
)

func TestCase(t *testing.T) {
	Run(t, "testdata/*.txtar", func(t *testing.T, c *Case) {
		if !c.Has("in") || c.Has("absent") || c.File("absent") != nil {
			t.Fatalf("%s: sections are not those of the file", c.Name)
		}
		c.Check(t, "want", string(c.File("in"))+"and more")
	})
}
