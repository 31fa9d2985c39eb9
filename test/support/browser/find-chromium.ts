import { findProgram, installByApt } from '../../stack/install-by-apt.ts';

/** The first has no user interface and uses half as much processor time. */
const names = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome'];
const advice = 'install chromium-headless-shell (Debian: apt-get install chromium-headless-shell)';

/** Why browser tests are skipped. */
export const noChromium = 'there is no Chromium on this machine';

/** The path of a Chromium on this machine, or undefined. */
export async function findChromium(): Promise<string | undefined> {
  for (const name of names) {
    const found = await findProgram(name);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Installs Debian's if there is none and apt is available. Fonts are installed with it, so that pages can be viewed. */
export async function provideChromium(): Promise<void> {
  if ((await findChromium()) !== undefined) return;
  await installByApt({ what: 'Chromium', packages: ['chromium-headless-shell', 'fonts-dejavu-core'], advice });
}
