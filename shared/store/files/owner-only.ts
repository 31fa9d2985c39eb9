/**
 * Modes of files and folders that the SQLite store creates. A umask can only remove permissions. Files created by an older release keep
 * their mode.
 */
export const ownerOnly = { folder: 0o700, file: 0o600 } as const;
