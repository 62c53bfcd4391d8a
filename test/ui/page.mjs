// The page of a daemon that asks nobody who they are.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { accessible, base, browser, claim, env, equal, go, open, picture, rows } from './drive.mjs';

const page = await open();
const api = async (method, path, body) => {
  const response = await fetch(env.PAWL_URL + path, { method, body });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return response;
};
const texts = (locator) => locator.allInnerTexts();

await claim('the overview shows sinks, their health and what needs somebody', async () => {
  await go(page, '', 'Overview');
  await page.locator('tr', { hasText: 'mirror' }).getByText(/Unreachable|Failing|Probing/).waitFor();
  await page.locator('tr', { hasText: 'web' }).getByText('Healthy').waitFor();
  await page.getByRole('heading', { name: 'Needs attention' }).waitFor();
  await page.locator('#live').getByText('Live', { exact: true }).waitFor();
  await picture(page, 'overview-light');
});

await claim('the policy forbids inline code and other sites', async () => {
  const response = await page.goto(base);
  const policy = response.headers()['content-security-policy'];
  for (const part of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"]) {
    if (!policy.includes(part)) throw new Error(`${part} is not in ${policy}`);
  }
  if (policy.includes('unsafe')) throw new Error(policy);
});

await claim('the list goes from page to page and back', async () => {
  await go(page, '#/resources?prefix=many/', 'Resources');
  await page.locator('tbody tr').nth(99).waitFor();
  equal(await page.locator('tbody th').first().innerText(), 'many/000', 'the first');
  await page.keyboard.press('n');
  await page.locator('tbody th', { hasText: 'many/100' }).waitFor();
  await page.keyboard.press('n');
  await page.locator('tbody th', { hasText: 'many/229' }).waitFor();
  await rows(page, 30, 'rows on the last page');
  await page.keyboard.press('p');
  await page.locator('tbody th', { hasText: 'many/100' }).waitFor();
  await picture(page, 'resources-light');
});

await claim('filters by sink, prefix, phase and owner', async () => {
  await go(page, '#/resources', 'Resources');
  await page.getByLabel('Sink', { exact: true }).selectOption('mirror');
  await page.locator('tbody th', { hasText: 'waits' }).waitFor();
  await rows(page, 1, 'resources of mirror');
  await go(page, '#/resources?phase=Stalled,Pending,Delivering', 'Resources');
  await page.locator('tbody th', { hasText: 'waits' }).waitFor();
  equal(await texts(page.locator('tbody th')), ['waits'], 'what waits');
  await go(page, '#/resources', 'Resources');
  await page.getByLabel('Owner').fill('manifests');
  await page.getByLabel('Owner').press('Enter');
  await page.waitForURL(/owner=manifests/);
  await page.locator('tbody th', { hasText: 'house/attic' }).waitFor();
  await rows(page, 6, 'what manifests owns');
  await go(page, '#/resources?prefix=nothing', 'Resources');
  await page.getByText('Nothing fits these filters').waitFor();
});

await claim('a row changes as its resource does, and stays where it is', async () => {
  await go(page, '#/resources?sink=web&prefix=many/00', 'Resources');
  const row = page.locator('tbody tr').nth(3);
  const before = await row.locator('td').nth(2).innerText();
  await api('PUT', '/v1/sinks/web/resource?key=many/003', '{"payload":{"n":2}}');
  await page.waitForFunction((was) => document.querySelectorAll('tbody tr')[3].cells[3].innerText !== was, before);
  equal(await row.locator('th').innerText(), 'many/003', 'the row');
});

await claim('a name that is markup stays a name', async () => {
  await go(page, '#/resources?prefix=%3Cimg', 'Resources');
  await page.locator('tbody a').first().click();
  await page.getByRole('heading', { level: 1, name: /<img src=x/ }).waitFor();
  equal(await page.locator('main img').count(), 0, 'images');
});

await claim('drift is told, compared with what is desired, and accepted', async () => {
  await fetch(`${env.TARGET_URL}/objects/touched`, { method: 'PUT', body: '{"color":"red","size":2}' });
  await go(page, '#/resource?sink=web&key=touched', 'touched');
  await page.getByRole('button', { name: 'Retry' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Retry', exact: true }).click();
  await page.locator('.facts').getByText('Drifted').waitFor();
  await page.getByRole('button', { name: 'Compare now' }).click();
  await page.getByText('Somebody else changed it').waitFor();
  await page.evaluate(() => window.scrollTo(0, 0));
  await picture(page, 'resource-light');
  await page.getByRole('button', { name: 'Accept' }).click();
  await picture(page, 'confirm-light');
  await page.getByRole('dialog').getByRole('button', { name: 'Accept', exact: true }).click();
  await page.locator('.facts').getByText('Acked').waitFor();
});

await claim('suspend, then resume', async () => {
  await go(page, '#/resource?sink=web&key=many/005', 'many/005');
  for (const verb of ['Suspend', 'Resume']) {
    await page.getByRole('button', { name: verb }).click();
    await page.getByRole('dialog').getByRole('button', { name: verb, exact: true }).click();
    await page.getByRole('button', { name: verb === 'Suspend' ? 'Resume' : 'Suspend' }).waitFor();
  }
});

await claim('nothing is forgotten before its key is typed', async () => {
  await go(page, '#/resource?sink=web&key=many/006', 'many/006');
  await page.getByRole('button', { name: 'Forget' }).click();
  const dialog = page.getByRole('dialog');
  const forget = dialog.getByRole('button', { name: 'Forget', exact: true });
  equal(await forget.isDisabled(), true, 'disabled at first');
  await dialog.getByRole('textbox').fill('many/00');
  equal(await forget.isDisabled(), true, 'disabled with a part of it');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  await api('GET', '/v1/sinks/web/resource?key=many/006');
  await page.getByRole('button', { name: 'Forget' }).click();
  await page.getByRole('dialog').getByRole('textbox').fill('many/006');
  await page.getByRole('dialog').getByRole('button', { name: 'Forget', exact: true }).click();
  await page.getByRole('heading', { level: 1, name: 'Resources' }).waitFor();
  const gone = await fetch(`${env.PAWL_URL}/v1/sinks/web/resource?key=many/006`);
  equal(gone.status, 404, 'the resource');
});

await claim('an error reads as the API says it', async () => {
  await go(page, '#/resource?sink=web&key=none', 'This can’t be shown');
  await page.getByRole('alert').getByText('There is no such resource', { exact: false }).or(page.getByRole('alert').getByText('no such resource')).first().waitFor();
});

await claim('a sink is suspended and resumed', async () => {
  await go(page, '#/sink?name=web', 'web');
  for (const verb of ['Suspend', 'Resume']) {
    await page.getByRole('button', { name: verb }).click();
    await page.getByRole('dialog').getByRole('button', { name: verb, exact: true }).click();
    await page.getByRole('button', { name: verb === 'Suspend' ? 'Resume' : 'Suspend' }).waitFor();
  }
});

await claim('what a fuse holds is shown, and goes once it is confirmed', async () => {
  for (const name of ['attic', 'bath', 'cellar', 'den']) rmSync(join(env.MANIFESTS, `${name}.yaml`));
  await go(page, '#/source?name=manifests', 'manifests');
  await page.getByRole('heading', { name: /deletions? held/ }).waitFor();
  await picture(page, 'source-light');
  await page.getByRole('button', { name: /Confirm/ }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('textbox').fill('manifests');
  await dialog.getByRole('button', { name: 'Delete them' }).click();
  await page.getByRole('heading', { name: /held/ }).waitFor({ state: 'detached' });
});

await claim('the empty list of sagas says what one is', async () => {
  await go(page, '#/sagas', 'Sagas');
  await page.getByText('No saga ran in the last seven days').waitFor();
});

await claim('keys lead everywhere, and the focus shows', async () => {
  await go(page, '', 'Overview');
  await page.keyboard.press('Tab');
  equal(await page.evaluate(() => document.activeElement.id), 'skip', 'the first stop');
  await page.keyboard.press('Enter');
  equal(await page.evaluate(() => document.activeElement.id), 'main', 'after it');
  await page.keyboard.press('g');
  await page.keyboard.press('r');
  await page.getByRole('heading', { level: 1, name: 'Resources' }).waitFor();
  await page.waitForFunction(() => document.activeElement.tagName === 'H1');
  await page.locator('tbody tr').first().waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  equal(await page.evaluate(() => document.activeElement.closest('tr').rowIndex), 2, 'the row of the focus');
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  equal(outline, 'solid', 'the outline');
  await page.keyboard.press('Enter');
  await page.locator('.explain').waitFor();
  await page.keyboard.press('?');
  await page.getByRole('dialog').getByText('Go to the overview').waitFor();
  await page.keyboard.press('Escape');
});

for (const [what, options] of [['light', {}], ['dark', { colorScheme: 'dark' }], ['phone', { viewport: { width: 390, height: 844 } }]]) {
  const other = await open(options);
  other.scheme = options.colorScheme;
  for (const [name, hash, heading] of [['overview', '', 'Overview'], ['resources', '#/resources?sink=web', 'Resources'],
    ['resource', '#/resource?sink=mirror&key=waits', 'waits'], ['sources', '#/sources', 'Sources'], ['source', '#/source?name=manifests', 'manifests'], ['sagas', '#/sagas', 'Sagas'], ['sink', '#/sink?name=mirror', 'mirror']]) {
    await claim(`${name} is accessible, ${what}`, async () => {
      await go(other, hash, heading);
      await other.waitForFunction(() => !document.querySelector('main[aria-busy]'));
      await picture(other, `${name}-${what}-plain`);
      const wide = await other.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      equal(wide, 0, 'pixels that stick out');
      await accessible(other, 'violations');
    });
  }
  await claim(`nothing went wrong in the browser, ${what}`, async () => equal(other.troubles, [], 'troubles'));
}
await claim('nothing went wrong in the browser', async () => equal(page.troubles, [], 'troubles'));
await browser.close();
