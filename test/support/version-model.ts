type Asked = { request: string; version: number; token?: string | undefined };

/** Whether the caller is current: Redis's copy of the version, and the token that may fill it. */
export function createVersionModel() {
  let present: number | undefined;
  let fill: string | undefined;
  return {
    /** A change to the account removes the version and the token. */
    forget(): void {
      [present, fill] = [undefined, undefined];
    },
    stale({ request, version, token }: Asked) {
      if (token !== undefined) {
        if (fill === token) [present, fill] = [version, undefined];
        return undefined;
      }
      if (present === version) return undefined;
      fill ??= request;
      return { outcome: 'stale', reading: { token: fill } } as const;
    },
  };
}
