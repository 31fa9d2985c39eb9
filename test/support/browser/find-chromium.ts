import { findProgram, installByApt } from '../../stack/install-by-apt.ts';

const names = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome'];
const advice = 'install chromium (Debian: apt-get install chromium)';

/** Why tests in a browser are skipped. */
export const noChromium = 'there is no Chromium on this machine';

/** The path of a Chromium on this machine, or undefined. */
export async function findChromium(): Promise<string | undefined> {
  for (const name of names) {
    const found = await findProgram(name);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Installs Debian's where there is none and apt can be used; fonts come with it, so that pages can be looked at. */
export async function provideChromium(): Promise<void> {
  if ((await findChromium()) !== undefined) return;
  await installByApt({ what: 'Chromium', packages: ['chromium', 'fonts-dejavu-core'], advice });
}
