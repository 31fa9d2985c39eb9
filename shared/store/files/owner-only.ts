/** Modes of what the SQLite store creates. A umask can only take from them. What an older release created keeps its mode. */
export const ownerOnly = { folder: 0o700, file: 0o600 } as const;
