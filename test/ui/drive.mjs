// What the scripts share: a browser, claims, and what a person would see.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export const env = process.env;
const require = createRequire(join(env.MODULES, 'package.json'));
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

export const base = `${env.PAWL_URL}/ui/`;
export const browser = await chromium.launch({ executablePath: env.CHROMIUM, args: ['--no-sandbox'] });

// open opens a page in a context of its own, and notes what goes wrong in it.
export async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(30000);
  page.troubles = [];
  page.on('pageerror', (err) => page.troubles.push(String(err)));
  page.on('console', (m) => {
    if (m.type() === 'error' && !/Failed to load resource/.test(m.text())) page.troubles.push(m.text());
  });
  page.on('request', (r) => {
    if (!r.url().startsWith(env.PAWL_URL)) page.troubles.push(`asked another site: ${r.url()}`);
  });
  return page;
}

// claim runs a check and tells how it went.
export async function claim(name, check) {
  let error = '';
  try {
    await check();
  } catch (err) {
    error = String(err.stack ?? err).slice(0, 3000);
  }
  console.log(JSON.stringify({ Name: name.replaceAll(' ', '_'), Error: error }));
}

export function equal(got, want, what) {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

// rows waits until the table has that many rows: a filter takes force a moment after it
// was given, and the rows before it may hold what is waited for as well.
export async function rows(page, want, what) {
  const count = () => page.locator('tbody tr').count();
  await page.waitForFunction((n) => document.querySelectorAll('tbody tr').length === n, want).catch(async () => equal(await count(), want, what));
}

// go shows a view and waits until it is there.
export async function go(page, hash, heading) {
  await page.goto(base + hash);
  await page.getByRole('heading', { level: 1, name: heading }).waitFor();
}

// accessible runs axe over what is shown. Playwright's world apart is not held to the
// page's policy.
export async function accessible(page, what) {
  const context = await browser.newContext({ bypassCSP: true, viewport: page.viewportSize(), colorScheme: page.scheme ?? 'light' });
  const twin = await context.newPage();
  await twin.goto(page.url());
  await twin.locator('main h1').waitFor();
  await twin.waitForFunction(() => !document.querySelector('main[aria-busy]'));
  await twin.evaluate(axe);
  const { violations } = await twin.evaluate(() => globalThis.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }));
  await context.close();
  equal(violations.map((v) => `${v.id}: ${v.nodes[0].html} ${v.nodes[0].failureSummary}`), [], what);
}

export async function picture(page, name) {
  if (env.SCREENSHOTS) await page.screenshot({ path: join(env.SCREENSHOTS, `${name}.png`) });
}
