package core

import "time"

// FileKind is what lies at a path of the workspace.
type FileKind string

// The kinds of files.
const (
	FileRegular FileKind = "file"
	FileFolder  FileKind = "folder"
	FileLink    FileKind = "link"  // it is never followed
	FileOther   FileKind = "other" // a device, a fifo, a socket
)

// FileEntry is what lies in a folder of the workspace.
type FileEntry struct {
	Path     string // relative to the workspace, slashes; any bytes but NUL
	Kind     FileKind
	Size     int64     // bytes; 0 if it is no regular file
	Modified time.Time // as the box says
}

// FilePiece is a part of a file.
type FilePiece struct {
	Data   []byte
	Offset int64 // of Data in the file, bytes
	Total  int64 // bytes of the file; at least where Data ends
}

// FileRequest names something in the workspace of a session. Nothing in it is checked yet.
type FileRequest struct {
	Sandbox string // id or name; "" is the connection's own
	Path    string // relative to the workspace
	Tenant  string
	Client  string // the connection that it came on
}

// FileListing is what lies in a folder of a session's workspace, by path.
type FileListing struct {
	Session string
	Entries []FileEntry
	Cut     bool // there is more
}

// FileContent is a part of a file in a session's workspace, or a picture of it.
type FileContent struct {
	Session  string
	MIMEType string // of the file, by its name and its first bytes if they are in the piece
	Piece    FilePiece
	Preview  *Preview // the image that the file is, if that was asked for; then the piece is the file's beginning
}
