type Asked = { request: string; version: number; token?: string | undefined };

/** Whether the caller at hand is the present one: Redis's copy of the version, and the token under which it may be filled. */
export function createVersionModel() {
  let present: number | undefined;
  let fill: string | undefined;
  return {
    /** A change to the account leaves no version and no reading behind. */
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
