import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';

const places = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** A Chromium of this machine, at `CHROMIUM` or where systems have it; undefined where there is none. */
export async function openBrowser(): Promise<Browser | undefined> {
  const executablePath = places.find((path) => path !== undefined && existsSync(path));
  return executablePath === undefined ? undefined : chromium.launch({ executablePath, args: ['--no-sandbox'] });
}
