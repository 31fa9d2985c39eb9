/** The account that this text names: `alice` is `user:alice`; an empty text stays empty. */
export function accountName(text: string): string {
  const name = text.trim();
  return name === '' || /^(user|device):/.test(name) ? name : `user:${name}`;
}
