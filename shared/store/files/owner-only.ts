/** Modes of files and folders that the SQLite store creates. A umask can only remove permissions. A file that exists keeps its mode. */
export const ownerOnly = { folder: 0o700, file: 0o600 } as const;
