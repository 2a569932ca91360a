package sqlstore

import "io/fs"

// Steps are the texts of schema/*.sql, which take a database from nothing to today's tables, in their order by name.
func Steps(files fs.FS) ([]string, error) {
	names, err := fs.Glob(files, "schema/*.sql")
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(names))
	for i, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		texts[i] = string(text)
	}
	return texts, nil
}
