/** Returns an address without a slash at its end, so that a path can follow. */
export function withoutSlash(url: string): string {
  return url.replace(/\/$/, '');
}
