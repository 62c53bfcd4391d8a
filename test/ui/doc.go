// Package ui tests the web page in a real browser: the built daemon, its shipped http
// plugin, a store on disk and targets, and Chromium without a window, which page.mjs
// drives. It has no code of its own.
//
// The tests are skipped where there is no node, npm or Chromium. With -screenshots DIR
// they leave there what a person would see.
package ui
